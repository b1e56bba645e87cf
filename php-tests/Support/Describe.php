<?php

namespace RedisLock\Tests\Support;

/** Describes classes by Reflection, in plain arrays that can be compared. */
final class Describe
{
    /** @param iterable<string> $names */
    public static function classes(iterable $names): array
    {
        $classes = [];
        foreach ($names as $name) {
            $class = new \ReflectionClass($name);
            $classes[$name] = [
                'parent' => $class->getParentClass() ? $class->getParentClass()->name : null,
                'interfaces' => $class->getInterfaceNames(),
                'modifiers' => \Reflection::getModifierNames($class->getModifiers()),
                'constants' => $class->getConstants(),
                'properties' => self::properties($class),
                'methods' => self::methods($class),
            ];
        }
        ksort($classes);

        return $classes;
    }

    /** What is private is nobody's face. */
    private static function properties(\ReflectionClass $class): array
    {
        $properties = [];
        foreach ($class->getProperties() as $property) {
            if (!$property->isPrivate() && $property->class === $class->name) {
                $properties[$property->name] = (string) $property;
            }
        }

        return $properties;
    }

    private static function methods(\ReflectionClass $class): array
    {
        $methods = [];
        foreach ($class->getMethods() as $method) {
            if ($method->class === $class->name && !$method->isPrivate()) {
                $methods[$method->name] = [
                    'modifiers' => \Reflection::getModifierNames($method->getModifiers()),
                    'parameters' => array_map(self::parameter(...), $method->getParameters()),
                    'required' => $method->getNumberOfRequiredParameters(),
                    'returns' => self::type($method->getReturnType()),
                    'by reference' => $method->returnsReference(),
                    'deprecated' => $method->isDeprecated(),
                ];
            }
        }
        ksort($methods);

        return $methods;
    }

    private static function parameter(\ReflectionParameter $parameter): array
    {
        return [
            'name' => $parameter->name,
            'type' => self::type($parameter->getType()),
            'nullable' => $parameter->allowsNull(),
            'optional' => $parameter->isOptional(),
            'default' => $parameter->isDefaultValueAvailable() ? var_export($parameter->getDefaultValue(), true) : 'none',
            'by reference' => $parameter->isPassedByReference(),
            'variadic' => $parameter->isVariadic(),
            // PHP 8.1 does not know the attribute.
            'sensitive' => PHP_VERSION_ID >= 80_200 && $parameter->getAttributes(\SensitiveParameter::class) !== [],
        ];
    }

    private static function type(?\ReflectionType $type): ?string
    {
        return $type === null ? null : (string) $type;
    }
}
